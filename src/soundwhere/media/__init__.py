"""Files to tensors and back: sound, picture, video, drawing. PyAV and torch only."""
