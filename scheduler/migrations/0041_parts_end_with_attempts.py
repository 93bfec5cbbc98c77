from django.db import migrations

#: Attempts that ended before they started left their parts waiting, and their nodes in use for ever.
END_PARTS = """
UPDATE scheduler_attemptpart AS part SET state = 'exited' FROM scheduler_attempt AS attempt
WHERE attempt.id = part.attempt_id AND attempt.state = 'ended' AND part.state <> 'exited'
"""


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0040_job_arrays'),
    ]

    operations = [
        migrations.RunSQL(END_PARTS, migrations.RunSQL.noop),
    ]
