"""The paper's numbers, with their units.

A name ends in its unit where it has one: `_S` seconds, `_HZ` hertz, `_PX` pixels.
"""

from __future__ import annotations

from typing import Final

# Sound: "22.05 kHz ... Short-Time Fourier Transform with 50ms windows and 25ms hop size for 3-second clips"
SAMPLE_RATE_HZ: Final = 22_050
CLIP_S: Final = 3.0
CLIP_SAMPLES: Final = round(CLIP_S * SAMPLE_RATE_HZ)
MIXING_RMS: Final = 0.1  # level each source is scaled to before sources are summed

# Picture: "each image is resized to 224 x 224", "h = H/32, w = W/32"
FRAME_PX: Final = 224
ENCODER_STRIDE_PX: Final = 32
IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)

# Differentiable thresholding (Eq. masks)
POSITIVE_THRESHOLD: Final = 0.65
NEGATIVE_THRESHOLD: Final = 0.4
MASK_TEMPERATURE: Final = 0.03
INFONCE_TEMPERATURE: Final = 0.07  # of the peers' released code; the paper's equation has none

# Stage 2: "a 4-layer Transformer encoder with 8 attention heads"
DECOUPLER_LAYERS: Final = 4
DECOUPLER_HEADS: Final = 8
SOURCES: Final = 2

# Training: "the Adam optimizer with an initial learning rate of 1e-4 and a batch size of 256"
LEARNING_RATE: Final = 1e-4
BATCH_SIZE: Final = 256
