"""The messages of docs/asyncapi.yaml as data-only types, and the topics they travel on."""
