"""The network of the demo."""

from .. import nn
from .._core.tensor import Tensor
from ..nn import functional as F


class Network(nn.Module):
    """Two convolutions, each with batch norm and pooling, and a linear layer: of images
    (N, 1, 8, 8) it makes a score for each image and digit, (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(64)
        self.dropout = nn.Dropout(0.3)
        self.linear = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(images))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.linear(self.dropout(x.reshape((len(x), -1))))
