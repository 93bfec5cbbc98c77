"""How skewed well-known models are: their largest tensor's part of the whole model.

A gang of a skewed model suffers when it is spread, because one tensor's update waits for one link
(Tiresias, NSDI'19, section 3.3). The first nine are computed from the tensor sizes in the published
Tiresias simulator (SymbioticLab/Tiresias, simulator/models.py); the others from the published
architectures, in parameters.
"""

from __future__ import annotations

import re

_SKEWS = {
    "vgg19": 392.0 / 547.1,
    "vgg16": 392.0 / 526.8,
    "vgg11": 392.0 / 506.5,
    "alexnet": 144.0 / 235.8,
    "resnet152": 9.0 / 149.6,
    "resnet101": 9.0 / 119.7,
    "resnet50": 9.0 / 80.6,
    "inception4": 5.9 / 132.8,
    "inception3": 7.8 / 56.6,
    # 4096 x 25088 of 133.0 million.
    "vgg13": 102.76 / 133.05,
    # 512 x 512 x 3 x 3 of 11.69 and 21.80 million.
    "resnet18": 2.359 / 11.69,
    "resnet34": 2.359 / 21.80,
    # 1024 x 1000 of 6.62 million.
    "googlenet": 1.024 / 6.62,
    # 1024 x 1000 of 2.28, 1280 x 1000 of 3.50 million.
    "shufflenetv2x10": 1.024 / 2.279,
    "mobilenetv2": 1.280 / 3.505,
    # 30522 x 768 of 109.5, 50257 x 768 of 124.4 million: the table of word vectors.
    "bert": 23.44 / 109.5,
    "gpt2": 38.60 / 124.4,
}

#: Skewed enough to be kept together: between VGG and AlexNet (0.6 and more) and all others.
PACK_LIMIT = 0.5


def skew_of(application: str) -> float | None:
    """Return the skew of a model by its name as traces write it, None when it is not known.

    "ResNet-50 (batch size 64)" and "resnet50" are the same model.
    """
    name = re.sub(r"[^a-z0-9]", "", application.split("(")[0].split("/")[0].lower())
    return _SKEWS.get(name)
