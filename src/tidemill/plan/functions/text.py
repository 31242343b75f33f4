"""Functions on text, also regular expressions and digests. How to read a signature: `tidemill.plan.functions`."""

SIGNATURES = """
UPPER                 string                                  -> STRING
LOWER                 string                                  -> STRING
INITCAP               string                                  -> STRING
CHAR_LENGTH           string                                  -> INT
CHARACTER_LENGTH      string                                  -> INT
OCTET_LENGTH          string                                  -> INT
ASCII                 string                                  -> INT
CHR                   integer                                 -> STRING
CONCAT                STRING...                               -> STRING
CONCAT_WS             STRING STRING...                        -> STRING
SUBSTRING             string INT [INT]                        -> STRING
SUBSTR                string INT [INT]                        -> STRING
LEFT                  string INT                              -> STRING
RIGHT                 string INT                              -> STRING
TRIM                  string string                           -> STRING
TRIM LEADING          string string                           -> STRING
TRIM TRAILING         string string                           -> STRING
LTRIM                 string [string]                         -> STRING
RTRIM                 string [string]                         -> STRING
BTRIM                 string [string]                         -> STRING
LPAD                  string INT string                       -> STRING
RPAD                  string INT string                       -> STRING
REPEAT                string INT                              -> STRING
REVERSE               string                                  -> STRING
REPLACE               string string string                    -> STRING
OVERLAY               string string INT [INT]                 -> STRING
POSITION              string string                           -> INT
LOCATE                string string [INT]                     -> INT
INSTR                 string string                           -> INT
REGEXP_REPLACE        string string string                    -> STRING
REGEXP_EXTRACT        string string [INT]                     -> STRING?
REGEXP                string string                           -> BOOLEAN
SPLIT_INDEX           string string INT                       -> STRING?
STARTSWITH            string string                           -> BOOLEAN
ENDSWITH              string string                           -> BOOLEAN
TO_BASE64             string                                  -> STRING
FROM_BASE64           string                                  -> STRING
MD5                   string                                  -> STRING
SHA1                  string                                  -> STRING
SHA256                string                                  -> STRING
SHA512                string                                  -> STRING
LIKE                  string string [string]                  -> BOOLEAN
||                    STRING STRING                           -> STRING
"""
