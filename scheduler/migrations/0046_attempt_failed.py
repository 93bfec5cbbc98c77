from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0045_raw_output'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(
                condition=models.Q(('outcome', 'failed')), fields=['-ended_at', '-id'], name='attempt_failed'
            ),
        ),
    ]
