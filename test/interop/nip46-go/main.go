// Command nip46-go is a remote signer (NIP-46) made of go-nostr: it signs for the secret key in NIP46_KEY over one relay,
// each event after NIP46_APPROVAL_MS, as an owner who has to approve it would.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip46"
)

const secret = "interop"

func main() {
	url, key := os.Args[1], os.Getenv("NIP46_KEY")
	approval, _ := strconv.Atoi(os.Getenv("NIP46_APPROVAL_MS"))
	owner, err := nostr.GetPublicKey(key)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	relay, err := nostr.RelayConnect(ctx, url)
	if err != nil {
		panic(err)
	}
	signer := nip46.NewStaticKeySigner(key)
	signer.AuthorizeRequest = func(harmless bool, from string, said string) bool {
		return said == "" || said == secret
	}
	now := nostr.Now()
	requests, err := relay.Subscribe(ctx, nostr.Filters{{
		Kinds: []int{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": []string{owner}}, Since: &now,
	}})
	if err != nil {
		panic(err)
	}
	fmt.Printf("bunker://%s?relay=%s&secret=%s\n", owner, url, secret)
	for event := range requests.Events {
		request, _, answer, err := signer.HandleRequest(ctx, event)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		if request.Method == "sign_event" {
			time.Sleep(time.Duration(approval) * time.Millisecond)
		}
		fmt.Fprintln(os.Stderr, request.Method)
		if err := relay.Publish(ctx, answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
