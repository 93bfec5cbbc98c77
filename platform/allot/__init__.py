"""The Python client of Allotment and the `allot` command line. Talks only to the REST API.

    from allot.client import Client

    with Client.from_environment() as client:
        job = client.submit({"name": "train", "gpus": 2, "command": ["python", "train.py"]})
        print(client.why(job["id"]))

Nothing here imports anything of the server, and nothing heavy is imported before it is needed: the
command has to answer at once.
"""

VERSION = "0.1.0"
