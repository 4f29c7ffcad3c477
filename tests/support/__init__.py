"""What several rooms use: tables of cases, references, helpers."""
