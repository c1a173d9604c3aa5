"""Pictures of services: the report as a page, curves as a picture, the timeline for Perfetto."""
