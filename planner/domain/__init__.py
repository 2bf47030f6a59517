"""The vocabulary of wideplan: frozen values, enumerations and rules; no I/O, standard library only."""
