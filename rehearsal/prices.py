"""AWS's Price List API as far as Karpenter asks it, answered from the repository's own prices.

moto has no such API. Karpenter keeps its built-in price of every type that is not in the answer, so an answer with the
types of `components/facts` makes it decide by the same prices as our sizing does.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from components.facts.instance_types import INSTANCE_TYPES

OPERATION = "AWSPriceListService.GetProducts"
MEDIA_TYPE = "application/x-amz-json-1.1"


def price_list() -> list[str]:
    """One product for each type with a price, as JSON text, with the fields that Karpenter reads."""
    return [
        json.dumps(
            {
                "product": {"attributes": {"instanceType": name}},
                "terms": {
                    "OnDemand": {"1": {"priceDimensions": {"1": {"pricePerUnit": {"USD": str(price)}}}}}
                },
            }
        )
        for name, price in sorted((row.name, row.usd_per_hour) for row in INSTANCE_TYPES.values())
        if price is not None
    ]


class Handler(BaseHTTPRequestHandler):
    """Answers `GetProducts`, whatever is filtered by: Karpenter takes an empty list of bare metal as a failure."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer an operation."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.headers.get("X-Amz-Target", "")
        if operation == OPERATION:
            self._answer(200, {"FormatVersion": "aws_v1", "PriceList": price_list()})
        else:
            self._answer(400, {"__type": "UnknownOperationException", "message": f"only {OPERATION} is here"})

    def do_GET(self) -> None:
        """Say that it is up."""
        self._answer(200, {})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(address: str, port: str) -> None:
    """Serve until ended."""
    ThreadingHTTPServer((address, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:3])
