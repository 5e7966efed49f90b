"""Where the truth comes from: boxes, masks in every format in use, and annotation files with what is wrong in them."""
