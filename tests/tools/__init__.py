"""What is around the library: files, graphs, profiles, the command line, documents, tests."""
