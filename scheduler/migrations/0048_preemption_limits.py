import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0047_without_gpus"),
    ]

    operations = [
        migrations.RenameModel(old_name="Restraint", new_name="PreemptionLimits"),
        migrations.AlterField(
            model_name="preemptionlimits",
            name="virtual_cluster",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name="preemption_limits",
                serialize=False,
                to="tenants.virtualcluster",
            ),
        ),
    ]
