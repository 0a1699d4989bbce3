"""Tests of the server layer, against a gateway that is scripted."""
