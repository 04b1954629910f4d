"""An OpenAI-compatible server over one engine, and a page that shows how it decodes."""
