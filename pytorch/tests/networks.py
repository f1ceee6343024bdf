"""Networks to try: torchvision's, and small ones with what makes plans hard."""

from __future__ import annotations

import torch
import torchvision
from torch import nn


def resnet18() -> nn.Module:
    return torchvision.models.resnet18(weights=None, num_classes=100)


def densenet121() -> nn.Module:
    return torchvision.models.densenet121(weights=None, num_classes=100)


def densenet() -> nn.Module:
    """Blocks whose layers read all that came before: a block is one layer of a chain."""
    return torchvision.models.DenseNet(growth_rate=16, block_config=(3, 4, 3), num_init_features=16, num_classes=100)


def convolutions() -> nn.Module:
    """Small enough for exact methods on its graph."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 100),
    )  # fmt: skip


def vit(image: int = 64) -> nn.Module:
    """A vision transformer of six blocks, with dropout."""
    return torchvision.models.VisionTransformer(
        image_size=image, patch_size=8, num_layers=6, num_heads=4, hidden_dim=128, mlp_dim=512, dropout=0.1, num_classes=100
    )


class Block(nn.Module):
    """Attention and a perceptron, each beside a residual, with dropout."""

    def __init__(self, width: int, heads: int, length: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act, self.drop = nn.GELU(), nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(length, length).tril().bool())

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
        weights = self.drop(scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """A language model (tokens: batch × length, int64) whose embedding is also its last matrix."""

    def __init__(self, layers: int = 12, width: int = 128, heads: int = 4, length: int = 128, words: int = 1000, dropout: float = 0.1):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, length, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.words(tokens) + self.places[: tokens.shape[1]])
        return self.head(self.norm(self.blocks(x)))


def gpt(**options: int) -> nn.Module:
    return GPT(**options)


class LSTM(nn.Module):
    """A language model of two recurrent layers with dropout between them."""

    def __init__(self, words: int = 500, width: int = 128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.first, self.second = nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width, batch_first=True)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, _ = self.first(self.words(tokens))
        x, _ = self.second(self.drop(x))
        return self.head(self.drop(x))


def lstm() -> nn.Module:
    return LSTM()
