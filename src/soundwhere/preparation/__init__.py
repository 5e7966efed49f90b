"""How a collection becomes shards: `soundwhere prepare`."""
