package pgproxy

import (
	"regexp"
	"strings"
)

// skipped are the parts of SQL text in which a semicolon or a word means nothing: quoted text, dollar-quoted
// text (its tag is matched by hand) and comments. Nested comments are not told apart; nobody pipelines those.
var skipped = regexp.MustCompile(`(?s)^(?:[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/)`)

var dollarTag = regexp.MustCompile(`^\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)

// hasCommit reports whether the text, of one statement or several, ends a transaction by COMMIT or END.
// COMMIT PREPARED is another matter: it ends a transaction that is not the session's.
func hasCommit(sql string) bool {
	for _, statement := range splitStatements(sql) {
		words := strings.Fields(strings.ToLower(statement))
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "create":
			// The END of an SQL-standard function body looks like a statement of its own.
			if strings.Contains(strings.ToLower(statement), "atomic") {
				return false
			}
		case "commit":
			if len(words) == 1 || words[1] != "prepared" {
				return true
			}
		case "end":
			return true
		}
	}
	return false
}

// splitStatements cuts SQL text at its semicolons, and blanks out quoted text and comments.
func splitStatements(sql string) []string {
	var statements []string
	var current strings.Builder
	for sql != "" {
		if part := skipped.FindString(sql); part != "" {
			current.WriteByte(' ')
			sql = sql[len(part):]
			continue
		}
		if tag := dollarTag.FindString(sql); tag != "" {
			current.WriteByte(' ')
			_, after, found := strings.Cut(sql[len(tag):], tag)
			if !found {
				break
			}
			sql = after
			continue
		}
		if sql[0] == ';' {
			statements = append(statements, current.String())
			current.Reset()
		} else {
			current.WriteByte(sql[0])
		}
		sql = sql[1:]
	}
	return append(statements, current.String())
}
