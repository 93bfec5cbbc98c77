"""A process that runs management commands on request, so that several cost one start of Django.

In: one JSON list per line, a command and its arguments. Out: one JSON object per line, either
{"output": ...} with what the command printed, or {"error": ...}.
"""

import io
import json
import os
import sys
import traceback


def main() -> None:
    answers = sys.stdout
    # A command that prints past its own `stdout` must not disturb the conversation.
    sys.stdout = sys.stderr
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    for line in sys.stdin:
        output = io.StringIO()
        try:
            call_command(*json.loads(line), stdout=output)
            answer = {"output": output.getvalue()}
        except CommandError as error:
            answer = {"error": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
