"""A small multilayer perceptron trained by SGD with momentum, in NumPy and float64."""

import hashlib
from dataclasses import dataclass

import numpy as np
from dataset import CLASSES, PIXELS

MOMENTUM = 0.9


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result. Two runs with equal settings end with equal weights."""

    batch: int
    learning_rate: float
    hidden: int
    seed: int


@dataclass
class TrainingState:
    """All that has to survive: `step` finished steps led to these weights and this velocity.

    Weights are one flat vector, so that saving, sending and summing take one line each.
    """

    step: int
    weights: np.ndarray
    velocity: np.ndarray

    def apply(self, mean_gradient: np.ndarray, learning_rate: float) -> None:
        self.velocity = MOMENTUM * self.velocity - learning_rate * mean_gradient
        self.weights = self.weights + self.velocity
        self.step += 1

    def digest(self) -> str:
        return hashlib.sha256(self.weights.astype("<f8").tobytes()).hexdigest()


def weight_count(hidden: int) -> int:
    return PIXELS * hidden + hidden + hidden * CLASSES + CLASSES


def initial_state(settings: Settings) -> TrainingState:
    """He initialisation: the variance that suits rectified units."""
    weights = np.zeros(weight_count(settings.hidden))
    random = np.random.default_rng(settings.seed)
    for matrix in _layers(weights, settings.hidden)[::2]:
        matrix[:] = random.normal(scale=np.sqrt(2.0 / matrix.shape[0]), size=matrix.shape)
    return TrainingState(step=0, weights=weights, velocity=np.zeros_like(weights))


def _layers(vector: np.ndarray, hidden: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Views into the flat vector: matrix and offsets of each of the two layers."""
    ends = np.cumsum([PIXELS * hidden, hidden, hidden * CLASSES])
    first, first_offset, second, second_offset = np.split(vector, ends)
    return first.reshape(PIXELS, hidden), first_offset, second.reshape(hidden, CLASSES), second_offset


def loss_and_gradient(
    weights: np.ndarray, hidden: int, images: np.ndarray, labels: np.ndarray
) -> tuple[float, np.ndarray]:
    """Cross-entropy and its gradient, both summed (not averaged) over the images."""
    first, first_offset, second, second_offset = _layers(weights, hidden)
    activations = np.maximum(images @ first + first_offset, 0.0)
    scores = activations @ second + second_offset
    scores -= scores.max(axis=1, keepdims=True)
    log_probabilities = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))

    score_gradient = np.exp(log_probabilities)
    score_gradient[rows, labels] -= 1.0
    activation_gradient = (score_gradient @ second.T) * (activations > 0.0)
    gradient = np.concatenate(
        [
            (images.T @ activation_gradient).ravel(),
            activation_gradient.sum(axis=0),
            (activations.T @ score_gradient).ravel(),
            score_gradient.sum(axis=0),
        ]
    )
    return -float(log_probabilities[rows, labels].sum()), gradient


def accuracy(weights: np.ndarray, hidden: int, images: np.ndarray, labels: np.ndarray) -> float:
    first, first_offset, second, second_offset = _layers(weights, hidden)
    scores = np.maximum(images @ first + first_offset, 0.0) @ second + second_offset
    return float((scores.argmax(axis=1) == labels).mean())
