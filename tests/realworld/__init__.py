"""Cases from public repositories and bug reports, and the program that judges the product by them."""
