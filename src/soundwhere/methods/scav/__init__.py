"""SCAV: selective convergence audio-visual localisation, the paper's method.

`config` has every setting; `model` the network, made of `prior` (Algorithm 1), `decouplers`, `shaping`, `strength` and
`peeling`; `stages` what each stage trains and minimises; `method` puts them into the catalogue.
"""
