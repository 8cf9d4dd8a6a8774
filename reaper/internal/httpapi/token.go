package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// Token is one bearer token, known by its hash only.
type Token struct {
	// Name stands in the audit log.
	Name string
	// Roles are what it may do, Queues those that it may touch; no queues
	// are all of them.
	Roles  []string
	Queues []string
	// SHA256 is the hash of the token's text.
	SHA256 [sha256.Size]byte
}

// NewToken makes a token; its text is nowhere else.
func NewToken(name string, roleNames, queues []string) (text string, t Token, err error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	text = "styx_" + base64.RawURLEncoding.EncodeToString(secret[:])
	t = Token{Name: name, Roles: roleNames, Queues: queues, SHA256: sha256.Sum256([]byte(text))}
	if err := t.check(); err != nil {
		return "", Token{}, &message.ValidationError{Field: "token", Code: message.CodeInvalid, Message: "the token " + err.Error()}
	}
	return text, t, nil
}

func (t Token) check() error {
	if t.Name == "" || len(t.Name) > message.MaxNameLength || strings.ContainsFunc(t.Name, isSpaceOrControl) {
		return fmt.Errorf("must have a name of 1 to %d bytes without spaces", message.MaxNameLength)
	}
	if t.SHA256 == [sha256.Size]byte{} {
		return errors.New("must have a hash")
	}
	if slices.Contains(t.Queues, "") {
		return errors.New("must not have an empty queue")
	}
	_, err := parseRoles(t.Roles)
	return err
}

func isSpaceOrControl(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 }

// Line is the token as ParseTokens reads it.
func (t Token) Line() string {
	parts := []string{t.Name, strings.Join(t.Roles, ","), "sha256:" + hex.EncodeToString(t.SHA256[:])}
	if len(t.Queues) > 0 {
		escaped := make([]string, len(t.Queues))
		for i, q := range t.Queues {
			escaped[i] = strings.ReplaceAll(url.PathEscape(q), ",", "%2C")
		}
		parts = append(parts, strings.Join(escaped, ","))
	}
	return strings.Join(parts, " ")
}

// ParseTokens reads tokens, one a line:
//
//	name role[,role…] sha256:HEX [queue,queue…]
//
// Queues are escaped as in a URL. Empty lines and those that begin with # are
// left out. Errors name the line and never quote it.
func ParseTokens(text string) ([]Token, error) {
	var tokens []Token
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		t, err := parseToken(words)
		if err == nil {
			err = t.check()
		}
		if err != nil {
			return nil, &message.ValidationError{
				Field: "tokens", Code: message.CodeInvalid, Message: fmt.Sprintf("line %d of the tokens %s", number, err),
			}
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

func parseToken(words []string) (Token, error) {
	if len(words) < 3 || len(words) > 4 {
		return Token{}, errors.New("must read: name role[,role] sha256:HEX [queue,queue…]")
	}
	t := Token{Name: words[0], Roles: strings.Split(words[1], ",")}
	digits, ok := strings.CutPrefix(words[2], "sha256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return Token{}, errors.New("must have sha256: and 64 hexadecimal digits in its third word")
	}
	copy(t.SHA256[:], sum)
	if len(words) == 4 {
		for word := range strings.SplitSeq(words[3], ",") {
			queue, err := url.PathUnescape(word)
			if err != nil {
				return Token{}, errors.New("has a queue that is not escaped as it must be")
			}
			t.Queues = append(t.Queues, queue)
		}
	}
	return t, nil
}

// keyring finds who holds a token.
type keyring struct {
	sums    [][sha256.Size]byte
	callers []*caller
}

func newKeyring(tokens []Token) (*keyring, error) {
	k := new(keyring)
	for _, t := range tokens {
		c, err := newCaller(Identity{Name: t.Name, Roles: t.Roles, Queues: t.Queues})
		if err != nil {
			return nil, err
		}
		k.sums = append(k.sums, t.SHA256)
		k.callers = append(k.callers, c)
	}
	return k, nil
}

// find compares with every token, in constant time.
func (k *keyring) find(r *http.Request) *caller {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return nil
	}
	scheme, text, ok := strings.Cut(given[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(text)))
	var found *caller
	for i := range k.sums {
		if subtle.ConstantTimeCompare(sum[:], k.sums[i][:]) == 1 {
			found = k.callers[i]
		}
	}
	return found
}
