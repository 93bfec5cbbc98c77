"""Public traces that the simulator reads: their publishers, their licences, and their contents.

Sizes and checksums are those of the published files, at one commit of the publisher's repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One published file."""

    #: Its path in the folder of its set.
    path: str
    #: Its path below the publisher's address.
    source: str
    #: None if the publisher does not state it.
    size_bytes: int | None
    #: SHA-256 in hexadecimal; None if it is unknown, and then recorded at the first download.
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A published set of files that `manage.py simulate --format` reads; archives must be unpacked first."""

    name: str
    title: str
    paper: str
    licence: str
    format: str
    address: str
    files: tuple[PublicFile, ...]


def _files(source: str, path: str, table: str) -> tuple[PublicFile, ...]:
    """Return the files in lines of checksum, bytes and name, below `source` there and `path` here."""
    rows = (line.split(" ", 2) for line in table.strip().splitlines())
    return tuple(PublicFile(path + name, source + name, int(size), digest) for digest, size, name in rows)


_ALL = (
    DataSet(
        name="openb",
        title="Alibaba's GPU-sharing snapshot of 2023, as FGD used it",
        paper="Weng et al., ATC 2023",
        licence="Apache-2.0",
        format="alibaba-gpu-v2023",
        address=f"{_RAW}/hkust-adsl/kubernetes-scheduler-simulator/8f3d6417353c5083c6d56617f255fadd8dc306bc",
        files=(
            *_files(
                "data/csv/",
                "",
                """
1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8 575468 openb_pod_list_default.csv
2beca64b4d3dfa342036a34b56a495c6cef9225db836c81f541282cb1df320b5 42353 openb_node_list_gpu_node.csv
""",
            ),
        ),
    ),
    DataSet(
        name="chronus",
        title="Two weeks of Philly with deadlines",
        paper="Gao et al., SoCC 2021",
        licence="MIT",
        format="chronus",
        address=f"{_RAW}/S-Lab-System-Group/ChronusArtifact/bc7e15fefd53b80d1897170ab3c1aa7d353c3b79",
        files=(
            *_files(
                "code/data/exp/",
                "",
                """
180fd7db3eeabe5df705c25259fcec972be2ba7b483887e26ca17e22d96b9f3e 1845942 trace_job_Philly_SLO.csv
6228d86e2c1fddb2d9e1c006f7a71b4127b7dbed4efbab5aea428fa72ea2dd74 1842793 trace_job_Philly_MIX1.csv
4eb087e8f1a5d85ee27f8e8375f3912af643fbacb81d121d746950401426148f 2144514 trace_job_Philly_MIX2.csv
""",
            ),
            *_files(
                "code/data/",
                "",
                """
d53f2d8e9cd4fdbf1cb6b862db010ed28f9432082a885f7a68125b83492ddbc7 1162 model_info.json
""",
            ),
        ),
    ),
    DataSet(
        name="gavel",
        title="Gavel's throughput tables, for its own workloads",
        paper="Narayanan et al., OSDI 2020",
        licence="MIT",
        format="gavel",
        address=f"{_RAW}/stanford-futuredata/gavel/c4fa40097339e9608ab71fd64c8bdea96a5e4a4c",
        files=(
            *_files(
                "scheduler/",
                "",
                """
17111f7295f03265fd9e5118d7eba31e3dd9d6e50a2e215c13ad3d3f91f74381 1240176 simulation_throughputs.json
4b5acfe389951edf734df26caf5bbaacbbba2df60e340758c4ed220cd65f963c 1240159 physical_cluster_throughputs.json
""",
            ),
        ),
    ),
    DataSet(
        name="muri",
        title="Muri's traces, each of one virtual cluster of Philly",
        paper="Zhao et al., SIGCOMM 2022",
        licence="Apache-2.0",
        format="muri",
        address=f"{_RAW}/Rivendile/Muri/4e69a78ce75f629a5a00abd48150a1860b341ce6",
        files=(
            *_files(
                "simulator/trace-data/",
                "",
                """
f30e5e32bd698dc3dfd07ebc90a99edcc809f130d489cdfe8bf23be52982b271 61308 job_type_1.csv
a1bcc3019aa3cc3544de558a46e7155fb27ad98aaddb6b8d2854979ac20409f0 61454 job_type_2.csv
863c459ccf69be70122e7c5d90e67c3291d6cc38ba91e75ee9b3ddacd315bb5a 64983 job_type_3.csv
fc8d59783486122d9f522b430c1d5a59fbee119b41feb67a3f67e0751340ce93 63755 job_type_4.csv
534d02a4ebe53aee1f60d3fb33e3b2207550bb28813e677c962051058ebafbc5 97574 trace1.csv
dfa7a6b0f5ff6fe4aae4e51a948f05bc229d1883a779e9721f181b7270190945 84097 trace1_pr.csv
5c29e1c49ed7929bff67c8008e6f2abcafc64e70bb55cdc91801490ce2df7003 374400 trace2.csv
de6449be0dcb9f48006a01eefb509f2845df8916b432672420bfb303a96f395e 322682 trace2_pr.csv
fc8d59783486122d9f522b430c1d5a59fbee119b41feb67a3f67e0751340ce93 63755 trace3.csv
af45628e89017a4faf20e75c586320643c08a5dd4f2f952502c6fcb25aba5e6c 54912 trace3_pr.csv
69754a0fc95b75de47923eb755d81b4cd7f8df37d82f007f870881e12470f0d1 167691 trace4.csv
affc099b308b8425852aa4dd20661506a3261f63a3b793ff174f65c7935b6acc 144279 trace4_pr.csv
""",
            ),
            *_files(
                "cluster_exp/trace-data/",
                "",
                """
fe73b5e39c75ea73b3115d1d4fc7b19e482f7db13c1256a0756bf54bdc3befef 25642 cluster_trace.csv
""",
            ),
        ),
    ),
    DataSet(
        name="pollux",
        title="Pollux's workloads and measured profiles",
        paper="Qiao et al., OSDI 2021",
        licence="Apache-2.0",
        format="pollux",
        address=f"{_RAW}/petuum/adaptdl/c793c7089bd307462686339d29707925c461f9a9",
        files=(
            *_files(
                "simulator/",
                "",
                """
0bff9c3a36b52c7025484b666d788001b1478cc4d84be409ca04b28f58f9d162 4770 workloads/workload-1.csv
83bec266667ec209a202c10975ab321e52eb4989e5ba420d18003ed03cf15c4e 4855 workloads/workload-2.csv
d76d5d1e3f9143b5453083de5c7a4c6576e884b41e86434a624b08f2c4277dc0 4691 workloads/workload-3.csv
22c400f59637ba0fc2c9be3b491f67e0765d1bf33d0a57d76101d770e4443f21 4760 workloads/workload-4.csv
4761ea418f2cb618f79e1dcfc003d24de2810ec8d0af2ecf8895690d088c3930 4664 workloads/workload-5.csv
d6517c4d57c72e4f362f9e99f285e4f7fee0348913287033f11f02f5cb88f074 4821 workloads/workload-6.csv
fd29e99deef2c9edb758b431f3a04f896251a0ff6fb443567fb27580239462d5 4757 workloads/workload-7.csv
13618461b7dd45974f77dbf8354aa2a5bf5e6e04b15dbc783b174e111816774d 4847 workloads/workload-8.csv
""",
            ),
            *_files(
                "simulator/traces/",
                "profiles/",
                """
982811b611bc8447a078289939a2ccafc1f76c06e1e8ebcc4f4866a8e8fcdc0f 24089 bert/placements.csv
d3fac874d45f501b8126cd1a5238f9f53eec4a1ac17cc1a5133f1a17fc891943 8209 bert/scalability.csv
15e8df62086ac566259601e30b23502fc265de4b529be53c7bbd088181127469 180 bert/validation-12.csv
1570e36c3dd6fdc2a9dfc44194f21d8e875ac6838d9fa0909e4470b165cc305f 200 bert/validation-192.csv
87beb34e1f4d1540e70c4ca35540e8b32a76cd9824af759b8704f4c0333461c9 200 bert/validation-24.csv
1d2305fb7fa10e52df6509110f3e9d84a369125fd9fdbef1d4ef9217fbc14594 198 bert/validation-384.csv
0c647322cdbb0ed25975b903f1161e5dec1b17a6658b38c551e9ff81c543a1bc 199 bert/validation-48.csv
a6f2f1e37f2b6817385635ab309bf151223ee8ba1fc0e847514f9eed6f0ae666 201 bert/validation-96.csv
e77d1d8781e2e48c3952580bdf705f3be4f27cbbdcd0a2087eb152224a271b6b 56641 cifar10/placements.csv
d4bd0dd8ab0df8ce76bbd788b210637dd204937cd4a18f112577f2a812634152 15998 cifar10/scalability.csv
65ca500dbb2dad19d655dc3ebf37c4433bb3c64dc12df04cf695f82e626e9fb3 7036 cifar10/validation-1024.csv
3e44736464924617d8d90f30c1e356d3dd384075a76f8755e2b10a86935b94f4 5935 cifar10/validation-128.csv
d661d023fe48a926a3b16c8a4822e44e0a6686671ec87944cbe99ac6d56e495a 7043 cifar10/validation-2048.csv
3108d4af00743ec9355816d22d4c55c22ed115736b4bffd140626da90975c26d 7049 cifar10/validation-256.csv
ef38514818005468c6fbfb14378bc63798b5fe5b978386f5cbd549c14c0318df 7009 cifar10/validation-4096.csv
912a21991c9d9a3fc3c1fb56db7042b61a6ce43c4d8bf01e8dbe87f3298408dc 7026 cifar10/validation-512.csv
0908c53bfc20123ad60ad6c4984cfcdf53a623773f4e44e9f01d58305e5379b7 34500 deepspeech2/placements.csv
d49ed2ecb5f3b3f1204ef2200eb8a0f36e373830ae54833e2318085f7d237316 9233 deepspeech2/scalability.csv
0b0fb04b5902b3f86e39ac61ee3c20014c627b2903d51add69a791d56dd1d295 6848 deepspeech2/validation-160.csv
d0443954cf20c15453ce308637ab10b8a618e741b35de49e0cd94f9510cf7235 5788 deepspeech2/validation-20.csv
27b366d74f1ded22a1c8b92e8e706dd6e450d38e02df31eb64c2a31ead80218b 6815 deepspeech2/validation-320.csv
6e99c6d45d3ccd649de5e95a4f6354863a233ee0f4ee957464e13ff83ae9ef73 6856 deepspeech2/validation-40.csv
f9d5c82ea5c9ce2805f31731c030b48addf4fdb4fa8c53da5071bc51ac500273 6742 deepspeech2/validation-640.csv
f70e1e0afd4d5941cf0693bfe97a7144534665d45287a2553e59e7c26d6a199f 6865 deepspeech2/validation-80.csv
ac3d88937f40680c367ec83c7610eda088b8d60806e15cf3a4699fa1d15cb1e8 40702 imagenet/placements.csv
ca4970f3461c816237daaa4f37635cf07e78ee7a78df87788543b6e7b094e681 13715 imagenet/scalability.csv
a5c85cf1b036da68742d34ea094884ea2d0c6007b1c64b8593a380a31a7c09e0 6342 imagenet/validation-12800.csv
60f4fbfa9547101d6c2825a335444f1ad7bb1dea5fde1ccfdbd480e16cc2b5f5 6346 imagenet/validation-1600.csv
99359b5af430cf196b55c40c0c5578fca5d5d1acae4cd025a9f9731f97411eb6 5555 imagenet/validation-200.csv
17a818be4b5edf0116c9d2c184dcd32959fc545ef9fbd0cf7cc4ea1584fb25fa 6380 imagenet/validation-3200.csv
bbb41eff31eff5882bda761e5f221e6a74d46325eccda0594ab125a60d422a47 6416 imagenet/validation-400.csv
d143c22f513df9cfd67f1b9390312f3fdb444517f979cd39ca7998b11897bb07 7372 imagenet/validation-6400.csv
c5ab8a1797d45d7910ba4d47fa7c8753ddd3a06337f57f0c0cc04943b11d786e 6393 imagenet/validation-800.csv
012f861bd2acc57f5f7d09c7878082905ba0150660b9f5aeae9291d025527874 82769 ncf/placements.csv
2c773498098fbaedbbb90d21b1b765876896b7ec0a37b543bbdcbf0ef7f066a4 23047 ncf/scalability.csv
ca09ed956b3d18301c5c41d45f16bb252f5a901362bf8864083c33641e521576 845 ncf/validation-1024.csv
2935f9fd96a2eae03956630e285871301dfffbe1aa2ba714a0f0b996f30c6a93 834 ncf/validation-16384.csv
981525ec55b4e75e1d147a3905df775d7ca19a727667adb8f0734faf04e9b260 838 ncf/validation-2048.csv
871f600508647b03faff1a0c7d3c244bacf614ec38ddea978270080e3bc3e677 753 ncf/validation-256.csv
0adc7d68f257cabb455ece1801293595f83c9e82182b7ca1eb8879082a5bacb5 828 ncf/validation-32768.csv
5bef39a3f41e9989fa216ed3cc6d4aab91b807e6a4615ee08ee0fdce93820207 833 ncf/validation-4096.csv
736cf15f524872b9888602fcd8caa45491e6ecdc1cf44d1043e5ccf965d3f1e6 837 ncf/validation-512.csv
452f1aca238528cae73da4c256c1e0531feea2576d82688b101bbc13117e422d 837 ncf/validation-8192.csv
6ffceb8996e3fd57e47e550fdffc21eec7d7e34de1d806d8b3568734eaec0013 24146 yolov3/placements.csv
feb460a4afaa48073fbd3387b7aa610b414166b0e68ff66d4374a73ed4b930bc 4923 yolov3/scalability.csv
fc191f65adc5f766ceefcdc915b8a56fb236be98053d94dd55b0b4d4ae356ba0 3985 yolov3/validation-128.csv
f3bde37fff505ffa0c27af97945fdc853df0ab83e458c432d9b2ed3239475c18 4039 yolov3/validation-16.csv
1c3d0ce8f98a541d7ca7fea90907b36615289271e124b97890dd5697feeae66c 3977 yolov3/validation-256.csv
036c637a7ead92774bfcfcc58f7331b194a3d324a5383c3cb40a3097b6183013 4027 yolov3/validation-32.csv
3f5f626de33f5de5e503fe8b1a2c3d85e47e30507e2b22a5abd69fbdf00e3b9a 3976 yolov3/validation-512.csv
89186e4d07fa08cd3b6ab0c04dcad12ef686da6419c9f72f5fdf67eb5e7df5b9 4002 yolov3/validation-64.csv
6ff47809c183dd819dd3f306f36ec61e8b038a5c0a1b7de1b9b348573f6ce3eb 3535 yolov3/validation-8.csv
""",
            ),
        ),
    ),
    DataSet(
        name="tiresias",
        title="The sample of 60 jobs of Tiresias's simulator",
        paper="Gu et al., NSDI 2019",
        licence="Apache-2.0",
        format="tiresias",
        address=f"{_RAW}/SymbioticLab/Tiresias/959f9b08f44fa1b4f2b3aed79b01e4d439264a94",
        files=(
            *_files(
                "simulator/",
                "",
                """
17575949a6e570960db42bc5576739de9c334ed4c664859841c4f01ede38bd1b 1871 60_job.csv
""",
            ),
        ),
    ),
    DataSet(
        name="philly",
        title="Microsoft Philly: 75 days of a production cluster, as an archive",
        paper="Jeon et al., ATC 2019",
        licence="CC BY 4.0",
        format="philly",
        address="https://media.githubusercontent.com/media/msr-fiddle/philly-traces/29a1b87fa2d9ed80b83c9e3a37f3a88d382b031d",
        files=(
            # The repository states this checksum for its large file.
            PublicFile(
                "trace-data.tar.gz",
                "trace-data.tar.gz",
                1055988361,
                "2037ccf63a725a02be718b0e1aeee6142c90b7f62d0d849295120e9f6ba13d2c",
            ),
        ),
    ),
    DataSet(
        name="helios",
        title="SenseTime Helios: six months of four clusters, as an archive",
        paper="Hu et al., SC 2021",
        licence="CC BY 4.0",
        format="helios",
        address=f"{_RAW}/S-Lab-System-Group/HeliosData/159f0caeec16600b9b6017862952a36aae01c43f",
        # Its publisher states 36.4 MB and no checksum.
        files=(PublicFile("data.zip", "data.zip", None, None),),
    ),
)

DATA_SETS: Mapping[str, DataSet] = {one.name: one for one in sorted(_ALL, key=lambda one: one.name)}
