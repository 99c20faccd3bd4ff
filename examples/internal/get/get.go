// Package get makes the HTTP calls of the small example programs. It knows of no limit.
package get

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Call makes a call and discards the answer. A status other than 200 is an error.
func Call(ctx context.Context, client *http.Client, url string) error {
	_, err := Text(ctx, client, url)
	return err
}

// Text returns the body of a URL without the space around it. A status other than 200 is an error.
func Text(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return strings.TrimSpace(string(body)), err
}
