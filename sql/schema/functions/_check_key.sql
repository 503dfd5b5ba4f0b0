-- Raises ON002 or ON003 unless key and subject can be stored.
CREATE FUNCTION once._check_key(p_subject text, p_key text, p_subject_required boolean)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_key IS NULL OR octet_length(p_key) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'invalid key: %', CASE WHEN p_key IS NULL THEN 'it is NULL' ELSE 'it has ' || octet_length(p_key) || ' bytes' END
            USING ERRCODE = 'ON002',
                  DETAIL = 'A key is 1 to 255 bytes of text.',
                  HINT = 'Use the identity that the sender gives the operation, or a digest of it.';
    END IF;
    IF p_subject IS NULL OR octet_length(p_subject) > 255 THEN
        RAISE EXCEPTION 'invalid subject: %', CASE WHEN p_subject IS NULL THEN 'it is NULL' ELSE 'it has ' || octet_length(p_subject) || ' bytes' END
            USING ERRCODE = 'ON003',
                  DETAIL = 'A subject is at most 255 bytes of text; it is empty where a scope has none.',
                  HINT = 'Pass the tenant or user that the key belongs to, or leave the argument out.';
    END IF;
    IF p_subject_required AND p_subject = '' THEN
        RAISE EXCEPTION 'this scope requires a subject'
            USING ERRCODE = 'ON003',
                  DETAIL = 'Its keys are told apart by the tenant or user that they belong to, and the subject is empty.',
                  HINT = 'Pass the tenant or user that the key belongs to as p_subject.';
    END IF;
END
$$;

COMMENT ON FUNCTION once._check_key(text, text, boolean) IS 'raises ON002 or ON003 unless key and subject can be stored';
