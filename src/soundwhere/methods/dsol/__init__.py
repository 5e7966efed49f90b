"""DSOL (Hu et al., NeurIPS 2020): objects that sound are clustered alone, then told apart in mixtures."""
