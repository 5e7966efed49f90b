"""What the servers behind the local pages share: where they are reached, who may ask, and how they answer."""
