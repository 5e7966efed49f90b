from soundwhere.bench.scoring import bench_metrics


def test_both_ways_agree_and_ours_is_faster():
    result = bench_metrics(pairs=24, batch=12, size=(112, 224))
    assert result.pairs == 24
    assert result.largest_difference < 1e-6
    # the full benchmark asks for ten times; a small sample on a busy machine must at least be faster
    assert result.ratio == result.loop_s / result.ours_s
    assert result.ratio > 1
