"""ResNet-18 as a PyTorch module, as torchvision has it.

    stepsim compile examples/models/resnet18.py:model --out plan

The sizes are arguments, so that small networks of the same layers can be tried first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions of 3 x 3 and a shortcut around them."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(y)) + shortcut)


class ResNet18(nn.Module):
    """Four pairs of blocks, each pair but the first with half the rows and twice the channels."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential()
        inner = channels
        for number in range(4):
            outer = channels << number
            self.layers.append(Block(inner, outer, 1 if number == 0 else 2))
            self.layers.append(Block(outer, outer, 1))
            inner = outer
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inner, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.maxpool(functional.relu(self.bn1(self.conv1(image))))
        return self.fc(self.avgpool(self.layers(x)).flatten(1))


def model(
    *, size: int = 224, channels: int = 64, classes: int = 1000
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network in the mode of evaluation, and an image of ``size`` x ``size`` pixels."""
    return ResNet18(channels, classes).eval(), (torch.zeros(1, 3, size, size),)
