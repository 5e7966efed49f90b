"""The made-up world: scenes with truth, drawn and synthesised on demand, without any download."""

from soundwhere.data.synthetic.world import KINDS, Layout, World, boxes

__all__ = ["KINDS", "Layout", "World", "boxes"]
