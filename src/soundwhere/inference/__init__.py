"""From a file to an answer: Localiser, Result and the writers."""
