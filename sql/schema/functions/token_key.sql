-- The key under which a token is stored: a digest, so that who reads the table, or a dump of it, has no token.
CREATE FUNCTION once.token_key(p_token text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN 'token:' || encode(sha256(convert_to(p_token, 'UTF8')), 'hex');
END
$$;

COMMENT ON FUNCTION once.token_key(text) IS
'The key under which a token is stored, for once.complete, once.fail and once.lookup, with an empty subject: "token:" and the SHA-256 of the token''s text in hexadecimal digits.';
