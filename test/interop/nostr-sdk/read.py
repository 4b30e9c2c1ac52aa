"""Reads signed events (a JSON object on stdin, by name) with nostr-sdk, and prints what it sees in them."""

import json
import re
import sys

from nostr_sdk import Coordinate, Event, Metadata, Nip19

events = {name: Event.from_json(json.dumps(each)) for name, each in json.load(sys.stdin).items()}
tags = {name: [tag.to_vec() for tag in event.tags()] for name, event in events.items()}
naddr = re.search(r"nostr:(naddr1[0-9a-z]+)", events["note"].content()).group(1)
found = Nip19.from_bech32(naddr).as_enum().coordinate.coordinate()
named = Coordinate.parse(next(tag[1] for tag in tags["note"] if tag[0] == "a"))
print(
    json.dumps(
        {
            "valid": all(event.verify() for event in events.values()),
            "identifier": found.identifier(),
            "named": named.identifier(),
            "kind": found.kind().as_u16(),
            "name": Metadata.from_json(events["profile"].content()).as_record().name,
            "zaps": [tag[1:] for tag in tags["note"] if tag[0] == "zap"],
        }
    )
)
