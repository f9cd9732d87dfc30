package apitest

import (
	"os"
	"path/filepath"
	"time"

	"tandem.internal/controller/internal/apitoken"
	"tandem.internal/controller/internal/tokens"
)

// Keys keeps tokens in dir, at first one of each role that is called as its role; byRole has what
// their bearers show.
func Keys(dir string, now func() time.Time) (s *tokens.Store, byRole map[tokens.Role]string, err error) {
	var set tokens.Set
	byRole = map[tokens.Role]string{}
	for _, role := range tokens.Roles {
		secret := apitoken.New()
		set = set.With(tokens.Token{Name: string(role), Role: role, Hash: secret.Hash(), Created: Now,
			By: "uid:0(root)"})
		byRole[role] = secret.Text()
	}
	path := filepath.Join(dir, tokens.FileName)
	if err := os.WriteFile(path, set.Encode(), 0o600); err != nil {
		return nil, nil, err
	}
	s, err = tokens.Open(tokens.Config{Path: path, Now: now})
	return s, byRole, err
}
