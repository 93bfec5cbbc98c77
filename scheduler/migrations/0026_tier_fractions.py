from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0025_job_scaling'),
    ]

    operations = [
        migrations.AddField(
            model_name='fairnesssample',
            name='tier_demand_gpu_seconds',
            field=models.FloatField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='fairnesssample',
            name='useful_gpu_seconds',
            field=models.FloatField(db_default=0, default=0),
        ),
    ]
