"""Translation over HTTP: requests of many clients share batches; LibreTranslate's interface and one of our own."""
