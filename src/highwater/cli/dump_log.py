"""`highwater dump-log`: kafka-dump-log.sh."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from highwater.cli.dump_batches import CorruptFile, DumpOptions, Findings, dump
from highwater.cli.dump_indexes import (
    EPOCH_CHECKPOINT,
    OFFSET_CHECKPOINTS,
    dump_checkpoint,
    dump_index,
    dump_producer_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from highwater.cli.record_decoders import (
    Decoder,
    decode_metadata,
    decode_offsets,
    decode_text,
    decode_transactions,
)
from highwater.cli.tool import fail, misuse, require, tool
from highwater.wire.codec import Malformed

STRING_DECODERS = ("org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder")


@tool("dump-log")
@click.option("--files", metavar="FILES", help="REQUIRED: comma-separated files.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values; implied by every decoder.")
@click.option("--deep-iteration", is_flag=True, help="A line for each record; implied by --print-data-log.")
@click.option("--index-sanity-check", is_flag=True, help="Only check indexes as a broker does at its start.")
@click.option("--verify-index-only", is_flag=True, help="Only compare indexes with their log.")
@click.option("--skip-record-metadata", is_flag=True, help="Only contents in the lines of records.")
@click.option("--max-message-size", type=int, default=5 << 20, hidden=True, help="Any size is read.")
@click.option("--max-bytes", type=int, default=2**31 - 1, help="Read no more than so many bytes of each log.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Records of the metadata log.")
@click.option("--offsets-decoder", is_flag=True, help="Records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Records of __transaction_state.")
@click.option("--key-decoder-class", is_flag=False, flag_value=STRING_DECODERS[0], hidden=True)
@click.option("--value-decoder-class", is_flag=False, flag_value=STRING_DECODERS[0], hidden=True)
def command(context: click.Context, **options: object) -> None:
    """Print segments, indexes, snapshots and checkpoints."""
    require(context, "files")
    findings = Findings()
    dump_options = _options(context)
    corrupt = False
    for name in context.params["files"].split(","):
        path = Path(name)
        _print(f"Dumping {path}")
        try:
            _dump_file(path, context, dump_options, findings)
        except BrokenPipeError:
            raise  # the reader of the output has enough, which is no fault of a file
        except (CorruptFile, Malformed, OSError) as error:
            click.echo(str(error), err=True)
            corrupt = True
    for line in findings.lines():
        click.echo(line, err=True)
    if corrupt:
        sys.exit(1)


def _print(line: str) -> None:
    """Buffered, unlike click's echo: a segment can have a million lines."""
    sys.stdout.write(line + "\n")


def _options(context: click.Context) -> DumpOptions:
    params = context.params
    for option in ("key_decoder_class", "value_decoder_class"):
        if params[option] not in (None, *STRING_DECODERS):
            fail(f"The decoder {params[option]} is not available; only {STRING_DECODERS[0]} is")
    decoder = _decoder(context)
    contents = (
        params["print_data_log"]
        or decoder is not decode_text
        or params["key_decoder_class"] is not None
        or params["value_decoder_class"] is not None
    )
    return DumpOptions(
        print_contents=contents,
        deep=params["deep_iteration"] or contents,
        skip_metadata=params["skip_record_metadata"],
        max_bytes=params["max_bytes"],
        decoder=decoder,
    )


def _decoder(context: click.Context) -> Decoder:
    chosen = [
        decoder
        for option, decoder in (
            ("offsets_decoder", decode_offsets),
            ("transaction_log_decoder", decode_transactions),
            ("cluster_metadata_decoder", decode_metadata),
        )
        if context.params[option]
    ]
    if len(chosen) > 1:
        misuse(context, "Only one decoder can be used at a time")
    return chosen[0] if chosen else decode_text


def _dump_file(path: Path, context: click.Context, options: DumpOptions, findings: Findings) -> None:
    if not path.is_file():
        raise OSError(f"{path} is not a file" if path.exists() else f"{path} does not exist")
    sanity_only, verify_only = context.params["index_sanity_check"], context.params["verify_index_only"]
    if path.name == EPOCH_CHECKPOINT or path.name in OFFSET_CHECKPOINTS:
        dump_checkpoint(path, _print)
        return
    match path.suffix:
        case ".log" | ".checkpoint":
            dump(path, options, findings, _print)
        case ".index":
            dump_index(path, sanity_only=sanity_only, verify_only=verify_only, findings=findings, out=_print)
        case ".timeindex":
            dump_time_index(path, sanity_only=sanity_only, verify_only=verify_only, findings=findings, out=_print)
        case ".txnindex":
            dump_transaction_index(path, _print)
        case ".snapshot":
            dump_producer_snapshot(path, _print)
        case _:
            click.echo(f"Ignoring unknown file {path}", err=True)
