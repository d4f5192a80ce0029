"""A server for bundles: LibreTranslate's API, a page to translate on, dynamic batching."""
