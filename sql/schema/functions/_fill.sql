-- Fills the names of one epoch into the text of a function: {claim} {settle} {lookup} {takeover} {renew} {token} the epoch's functions, {fence} {seed} the
-- scope's sequences, {open} the open leaf, {rows} a query for the key's row in any live leaf, {unknown} the condition that no
-- sealed leaf has the key.
CREATE FUNCTION once._fill(p_template text, p_scope text, p_epoch bigint, p_generation integer, p_sealed integer[])
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_key constant text := 'subject = p_subject AND key = p_key AND state <> ''tombstone''';
    v_text text := p_template;
    v_rows text;
    v_unknown text;
BEGIN
    SELECT string_agg(format('SELECT * FROM once_data.%I WHERE %s', p_scope || '_g' || g.generation, c_key), ' UNION ALL ' ORDER BY g.ord)
      INTO v_rows
      FROM unnest(p_generation || p_sealed) WITH ORDINALITY AS g(generation, ord);
    SELECT coalesce(string_agg(format('NOT EXISTS (SELECT FROM once_data.%I WHERE %s)', p_scope || '_g' || g.generation, c_key),
                               ' AND ' ORDER BY g.ord), 'true')
      INTO v_unknown
      FROM unnest(p_sealed) WITH ORDINALITY AS g(generation, ord);

    v_text := replace(v_text, '{rows}', v_rows);
    v_text := replace(v_text, '{unknown}', v_unknown);
    v_text := replace(v_text, '{claim}', quote_ident(p_scope || '_claim_e' || p_epoch));
    v_text := replace(v_text, '{settle}', quote_ident(p_scope || '_settle_e' || p_epoch));
    v_text := replace(v_text, '{lookup}', quote_ident(p_scope || '_lookup_e' || p_epoch));
    v_text := replace(v_text, '{takeover}', quote_ident(p_scope || '_takeover_e' || p_epoch));
    v_text := replace(v_text, '{renew}', quote_ident(p_scope || '_renew_e' || p_epoch));
    v_text := replace(v_text, '{token}', quote_ident(p_scope || '_token_e' || p_epoch));
    v_text := replace(v_text, '{fence}', quote_literal('once_data.' || quote_ident(p_scope || '_fence')) || '::regclass');
    v_text := replace(v_text, '{seed}', quote_literal('once_data.' || quote_ident(p_scope || '_seed')) || '::regclass');
    v_text := replace(v_text, '{scope}', quote_literal(p_scope));
    v_text := replace(v_text, '{open}', 'once_data.' || quote_ident(p_scope || '_g' || p_generation));
    v_text := replace(v_text, '{epoch}', p_epoch::text);
    RETURN replace(v_text, '{generation}', p_generation::text);
END
$$;

COMMENT ON FUNCTION once._fill(text, text, bigint, integer, integer[]) IS 'fills the names of one epoch into the text of a function';
