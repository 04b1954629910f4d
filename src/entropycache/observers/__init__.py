"""Observers: what is made of the steps of decoding. They watch and never steer."""
