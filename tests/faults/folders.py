"""Using a run folder whole, and changing what it holds so that its checksums fit again."""

import hashlib
import json

import pyarrow.parquet as pq

import smered
from smered.outputs import write_outputs
from smered.store.schema import seal


def use(folder):
    """Read everything that a posterior reads, then try to go on."""
    posterior = smered.Posterior.open(folder)
    posterior.entities()
    posterior.overlap()
    posterior.estimate()
    posterior.diagnostics()
    posterior.true_values(0, 0)
    write_outputs(posterior, folder, estimate=posterior.estimate())
    smered.extend(folder, 2)


def files(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock")


def rewrite_receipts(folder):
    """Make every checksum fit again, as someone who means harm would; return how many there are."""
    made = 0
    for holder in [folder / "run.json", *folder.glob("checkpoints/*.json")]:
        try:
            content = json.loads(holder.read_text())
            receipts = content["contents" if holder.name == "run.json" else "files"]
            for name in receipts:
                data = (folder / name).read_bytes()
                receipts[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                made += 1
        except (ValueError, OSError, KeyError, TypeError, AttributeError):
            continue
        holder.write_text(json.dumps(seal(content)))
    return made


def rewrite(folder, name, change):
    """Change the columns of a Parquet file, and make every checksum fit again."""
    (path,) = folder.glob(name)
    pq.write_table(change(pq.read_table(path)), path)
    rewrite_receipts(folder)


def rewrite_json(folder, name, change):
    """Change what a JSON file holds, and make its checksum fit again."""
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(seal(content)))
