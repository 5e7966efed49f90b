"""The live page: camera and microphone in, heat over the picture as it happens."""
