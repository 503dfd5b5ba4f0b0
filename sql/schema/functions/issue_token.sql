-- Issues a token that stands for one operation of a subject.
CREATE FUNCTION once.issue_token(p_scope text, p_subject text, p_ttl interval DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Two random UUIDs are 244 bits of the server's strong source; the digest spreads them over a text of 43 characters.
    v_token text := rtrim(translate(encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64'), '+/', '-_'), '=');
    v_key text := once.token_key(v_token);
    v_epoch bigint;
    v_ttl interval;
    v_result once.claim_result;
BEGIN
    FOR i IN 1..100 LOOP
        v_epoch := once._route(p_scope, p_subject, v_key);
        v_ttl := coalesce(v_ttl, once._token_ttl(p_scope, p_subject, p_ttl));
        EXECUTE format('SELECT * FROM once_data.%I($1, $2, NULL, $3)', p_scope || '_token_e' || v_epoch)
           INTO v_result USING v_key, sha256(convert_to(p_subject, 'UTF8')), v_ttl;
        IF v_result.outcome IS NOT NULL THEN
            RETURN v_token;
        END IF;
    END LOOP;
    PERFORM once._raise_again(p_scope);
END
$$;

COMMENT ON FUNCTION once.issue_token(text, text, interval) IS
'Issues a token that stands for one operation of a subject: put it into the form, and redeem it in the transaction that does what the form asks for
(once.redeem_token). 43 letters, digits, "-" and "_", unguessable; only a digest of it is stored.
p_subject: whom the token is for (the user, the session); nobody else can redeem it.
p_ttl: how long it can be redeemed, by the database''s clock, at least the scope''s session length; NULL: as long as that.
Raises ON001, ON003, ON004 (a scope that issues no tokens, a ttl out of range), ON008, ON010, 42501.';
