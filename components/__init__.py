"""The component library. Deliberately empty: importing a leaf module must not load Pulumi or a provider SDK."""
