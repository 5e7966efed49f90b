import torch
from hypothesis import given
from hypothesis import strategies as st

from soundwhere.media.augment import WIDEST, blank


@given(st.integers(0, 3), st.integers(0, 99))
def test_whole_bands_and_spans_take_the_mean_and_the_rest_stays(count, seed):
    torch.manual_seed(seed)
    spectrogram = torch.rand(3, 1, 24, 36)
    blanked = blank(spectrogram, count)
    changed = (blanked != spectrogram)[:, 0]
    means = spectrogram.mean((1, 2, 3), keepdim=True).expand_as(spectrogram)
    torch.testing.assert_close(blanked[:, 0][changed], means[:, 0][changed])
    bands, spans = changed.all(2), changed.all(1)
    assert torch.equal(changed, bands[:, :, None] | spans[:, None, :])  # rectangles over the whole width or height
    assert bands.sum(1).max() <= count * (24 * WIDEST + 1)
    assert spans.sum(1).max() <= count * (36 * WIDEST + 1)


def test_every_spectrogram_gets_its_own_and_the_seed_decides():
    torch.manual_seed(0)
    spectrogram = torch.rand(1, 1, 64, 130).expand(4, -1, -1, -1)
    first = blank(spectrogram, 2)
    assert len({tuple((row != spectrogram[0]).flatten().tolist()) for row in first}) == 4
    torch.manual_seed(0)
    torch.rand(1, 1, 64, 130)
    assert torch.equal(blank(spectrogram, 2), first)
