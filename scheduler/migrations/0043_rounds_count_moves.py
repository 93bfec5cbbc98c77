from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0042_longest_wait'),
    ]

    operations = [
        migrations.AddField(
            model_name='round',
            name='moved',
            field=models.PositiveIntegerField(default=0),
        ),
    ]
