"""How is it scored? One streaming loop for every table, page and study."""
