from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0037_interference_fit'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='auxiliary',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='clustersettings',
            name='auxiliary',
            field=models.CharField(db_default='tune', default='tune', max_length=12),
        ),
    ]
