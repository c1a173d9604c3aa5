from stepsim.documents.json_text import load_json as load_json, parse_json as parse_json
from stepsim.documents.reading import (
    MOST_DEEP as MOST_DEEP,
    Document as Document,
    check_format as check_format,
)
from stepsim.documents.yaml_text import (
    load_yaml as load_yaml,
    parse_yaml as parse_yaml,
    parse_yaml_value as parse_yaml_value,
)
